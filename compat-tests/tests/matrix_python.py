"""The Python clients of the matrix."""
from raw import matrix

matrix.client("confluent-kafka", lambda: matrix.python("new", "confluent.py"))
matrix.client("kafka-python 2.0.2", lambda: matrix.python("old", "kp.py"), lacks={
    "idempotent": "came with 2.1", "trim": "came later", "null-headers": "send() wants bytes", "both-null": "send() wants a key or a value"})
matrix.client("kafka-python (newest)", lambda: matrix.python("new", "kp.py"), lacks={
    "null-headers": "send() wants bytes", "both-null": "send() wants a key or a value"})
matrix.client("aiokafka", lambda: matrix.python("new", "aio.py"), lacks={"both-null": "send() wants a key or a value"})
