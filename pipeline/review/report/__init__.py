"""The page on which security reviews the rules: `survey.py` asks the lake, `page.py` shows it."""
