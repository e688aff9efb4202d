"""What a data set and its batches hold: kinds of rows, phases."""
