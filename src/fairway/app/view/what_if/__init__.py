"""What would change if: the same state decided, or rolled forward, with and without some changes. Changes nothing."""
