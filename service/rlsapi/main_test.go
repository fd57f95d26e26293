package rlsapi_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	serveForBenchmark()
	goleak.VerifyTestMain(m)
}
