"""What a queue does, in numbers: for OpenTelemetry as it goes, for Prometheus when asked.

``instruments`` names them, ``listening`` counts steps as they are made, ``reading`` looks at a
queue, and ``textfile`` writes that down.
"""
