"""A scripted support agent, so that there are runs to look at without an agent."""

from pipeline.demo_agent.agent import demo_events

__all__ = ["demo_events"]
