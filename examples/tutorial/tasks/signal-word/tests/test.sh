#!/bin/sh
# 1 if the file holds the word alone, 0.5 if there is more in it, else 0.
reward=0
if grep -qw thunder /workspace/signal.txt; then reward=0.5; fi
if [ "$(cat /workspace/signal.txt)" = thunder ]; then reward=1; fi
echo "$reward" > /logs/verifier/reward.txt
