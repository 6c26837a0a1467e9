"""The app's options and client properties, checked and completed; advice on settings."""
