"""The application in the terminal and in a browser: screens fed by records, nothing derived here."""
