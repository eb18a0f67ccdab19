"""The worked example: a support agent, recorded, replayed, compared, killed and resumed."""
