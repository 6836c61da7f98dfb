"""Tasks in small web apps: apps that ship, tasks with plans, and how a task is verified."""
