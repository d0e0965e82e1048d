"""The Java clients of the matrix: one program, three versions of kafka-clients."""
import os
import subprocess

from raw import matrix
from raw.broker import COMPAT, shell
from raw.harness import Skip
from raw.tools import need


def java(version):
    def command():
        need("java", "javac", "mvn")
        try:
            folder = shell("compat_matrix_java", version)
        except (subprocess.CalledProcessError, IndexError):
            raise Skip(f"kafka-clients {version} could not be fetched") from None
        return ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
                f"-Dlog4j2.configurationFile={os.path.join(COMPAT, 'java/log4j2.properties')}", "-cp", f"{folder}/jars/*:{folder}/classes", "Matrix"]
    return command


matrix.client("Java kafka-clients 3.9", java("3.9"))
matrix.client("Java kafka-clients 4.0", java("4.0"))
matrix.client(matrix.NEWEST_JAVA, java("newest"))
