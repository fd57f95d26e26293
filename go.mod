module github.com/headgate/headgate

go 1.25.0

require (
	github.com/anishathalye/porcupine v1.3.0
	github.com/bradfitz/gomemcache v0.0.0-20260422231931-4d751bb6e37c
	github.com/dunglas/httpsfv v1.1.2
	github.com/redis/rueidis v1.0.77
	github.com/sony/gobreaker/v2 v2.4.0
	github.com/yuin/gopher-lua v1.1.0
	go.uber.org/goleak v1.3.0
	maragu.dev/gomponents v1.2.0
)

require golang.org/x/sys v0.47.0 // indirect
