"""actloop: a LangGraph agent that writes Python, runs it in a sandbox, sees what happened and repairs it."""
