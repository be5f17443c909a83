"""From texts to representations: a frozen part, a trained layer, and the loop that trains it."""
