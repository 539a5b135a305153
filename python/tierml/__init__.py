"""What a program on TierML's machines can ask and say: notices, progress, and a state that survives its machine."""
