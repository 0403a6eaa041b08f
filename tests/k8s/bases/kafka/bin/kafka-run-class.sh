#!/bin/sh
# kafka-run-class.sh CLASS ARGUMENT...: a program of Apache Kafka, with the environment's options for the Java machine.
# What is not set favours a quick start over a high throughput.
# Options are words of one variable, which is what makes them several.
# shellcheck disable=SC2086
exec java ${KAFKA_HEAP_OPTS:--Xmx256m} ${KAFKA_JVM_PERFORMANCE_OPTS:--XX:TieredStopAtLevel=1 -XX:+UseSerialGC} \
  -XX:-UsePerfData -Xshare:auto ${KAFKA_LOG4J_OPTS:-} ${KAFKA_OPTS:-} -cp '/opt/kafka/libs/*' "$@"
