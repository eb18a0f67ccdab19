from pipeline.broker.local import DEFAULT_PORT, Broker, find, free_port, is_ready, start, stop

__all__ = ["DEFAULT_PORT", "Broker", "find", "free_port", "is_ready", "start", "stop"]
