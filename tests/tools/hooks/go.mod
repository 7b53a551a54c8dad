// Records the answers of gojq and robfig/cron, in the versions that shell-operator uses, for our own.
module windlass.dev/tests/tools/hooks

go 1.26.0

require (
	github.com/itchyny/gojq v0.12.17
	gopkg.in/robfig/cron.v2 v2.0.0-20150107220207-be2e0b0deed5
)

require github.com/itchyny/timefmt-go v0.1.6 // indirect
