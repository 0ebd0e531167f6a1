"""The parts of the demo in `app.py`: a catalogue, a slow remote API, a duplicate check. Not in the wheel."""
