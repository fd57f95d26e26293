package respapi

import (
	"fmt"
	"strings"
	"testing"
)

const queued = "+QUEUED\r\n"

func TestTransactions(t *testing.T) {
	abort := "-EXECABORT Transaction discarded because of previous errors.\r\n"
	for _, networked := range []bool{false, true} {
		check(t, &Options{Networked: networked, MaxRequestBytes: 1 << 10}, []step{
			{"MULTI", okReply},
			{"EXEC", "*0\r\n"},
			{"EXEC", "-ERR EXEC without MULTI\r\n"},
			{"DISCARD", "-ERR DISCARD without MULTI\r\n"},
			// Requests run at EXEC, in order.
			{"MULTI", okReply},
			{"CL.THROTTLE k 15 30 60", queued},
			{"HG.CHECK nothing k", queued},
			{"CL.THROTTLE k", queued},
			{"PING \"it's\"\r\n", queued},
			{"CL.THROTTLE k 15 30 60", queued},
			{"EXEC", "*5\r\n" + numbersReply(0, 16, 15, -1, 2) + "-NOPOLICY unknown policy \"nothing\"\r\n" +
				"-" + redisCellUsage + "\r\n$4\r\nit's\r\n" + numbersReply(0, 16, 14, -1, 4)},
			{"CL.THROTTLE k 15 30 60 0", numbersReply(0, 16, 14, -1, 4)},
			{"MULTI", okReply},
			{"CL.THROTTLE k 15 30 60", queued},
			{"MULTI", "-ERR MULTI calls can not be nested\r\n"},
			{"DISCARD", okReply},
			{"CL.THROTTLE k 15 30 60 0", numbersReply(0, 16, 14, -1, 4)},
			// One rejected request discards the transaction.
			{"MULTI", okReply},
			{"CL.THROTTLE k 15 30 60", queued},
			{"GET k", "-ERR unknown command 'GET'" + notRedis},
			{"CL.THROTTLE k 15 30 60", queued},
			{"EXEC", abort},
			{"MULTI", okReply},
			{"ECHO", "-ERR wrong number of arguments for 'echo' command\r\n"},
			{"EXEC", abort},
			{"MULTI", okReply},
			{"PING", queued},
			{"DISCARD x", "-ERR wrong number of arguments for 'discard' command\r\n"},
			{"EXEC", abort},
			{"MULTI", okReply},
			{"INFO", "-ERR Command not allowed inside a transaction\r\n"},
			{"EXEC", abort},
			{"MULTI", okReply},
			{"ECHO " + strings.Repeat("x", 900), queued},
			{"ECHO " + strings.Repeat("x", 100), "-ERR too big transaction\r\n"},
			{"ECHO x", queued},
			{"EXEC", abort},
			{"CL.THROTTLE k 15 30 60 0", numbersReply(0, 16, 14, -1, 4)},
			{"MULTI", okReply},
			{"RESET", "+RESET\r\n"},
			{"PING", "+PONG\r\n"},
			{"MULTI", okReply},
			{"QUIT", okReply},
		})
	}
}

// TestTransactionsAreBounded: a transaction has the maximum size of a request.
func TestTransactionsAreBounded(t *testing.T) {
	t.Parallel()
	c := New(mustEngine(t, newFrozen(t), nil), nil).newClient(t)
	c.do("MULTI")
	took := 0
	for got := queued; got == queued; got = c.do("CL.THROTTLE", fmt.Sprint(took), "15", "30", "60") {
		took++
	}
	if took < 300 || took > DefaultMaxRequestBytes/30 {
		t.Errorf("%d requests were kept, want as many as 16 KiB hold", took)
	}
	if kept := cap(c.s.multi.requests); kept > 0 {
		t.Errorf("%d bytes are kept of a transaction that will not be run", kept)
	}
	if got := c.do("EXEC"); !strings.HasPrefix(got, "-EXECABORT ") {
		t.Errorf("EXEC: got %q", got)
	}
}

// TestTransactionsNeedAuthentication: MULTI is rejected before AUTH.
func TestTransactionsNeedAuthentication(t *testing.T) {
	check(t, &Options{Password: "secret"}, []step{{"MULTI", noAuth}, {"EXEC", noAuth}, {"DISCARD", noAuth}})
}
