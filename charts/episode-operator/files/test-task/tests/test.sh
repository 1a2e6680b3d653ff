#!/bin/sh
if [ "$(cat /tmp/answer.txt)" = walnut ]; then reward=1; else reward=0; fi
echo $reward > /logs/verifier/reward.txt
