"""The actions of ``featuregate fleet``, a module each: its options, its description, and what it does."""
