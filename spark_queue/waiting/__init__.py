"""What queues in a process share: lines of waiters, timers, futures, aborts."""
