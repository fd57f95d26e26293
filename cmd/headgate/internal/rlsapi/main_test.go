package rlsapi_test

import (
	"testing"

	"github.com/headgate/headgate/internal/leaktest"
)

func TestMain(m *testing.M) {
	serveForBenchmark()
	leaktest.Main(m)
}
