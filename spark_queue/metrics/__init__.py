"""Metrics of a queue, for OpenTelemetry and Prometheus.

``instruments`` names them, ``listening`` counts steps as they are made, ``reading`` looks at a
queue, and ``textfile`` writes that down.
"""
