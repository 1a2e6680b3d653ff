"""What a release consists of: wheel, chart, bills of materials, checksums; `make release`."""
