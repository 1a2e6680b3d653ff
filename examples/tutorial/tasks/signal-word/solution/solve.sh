#!/bin/sh
echo thunder > /workspace/signal.txt
