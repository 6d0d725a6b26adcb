"""What a user's rows must look like, and the keys, texts and sizes that are computed from them."""
