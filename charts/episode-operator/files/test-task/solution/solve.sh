#!/bin/sh
echo walnut > /tmp/answer.txt
