"""Rules over sets of items: texts of SQL, and the engine that runs them here."""
