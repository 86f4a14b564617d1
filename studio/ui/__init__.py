"""The page. Looks and clicks only: whatever it does, it does through `studio.actions`."""
