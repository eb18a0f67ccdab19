"""Run it again: four questions to a recorded run, each under an authority of its own."""
