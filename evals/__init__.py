"""Evaluation suites. Uses the public interface alone."""
