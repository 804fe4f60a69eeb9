"""How well the tools serve an agent: tasks of its own, a budget, a transcript of every call, and
the agent's last kernel judged in the end, with the server and without it. README.md has the
commands."""
