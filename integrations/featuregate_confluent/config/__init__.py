"""What the app gives the switch: options and client properties, checked and completed; advice on settings."""
