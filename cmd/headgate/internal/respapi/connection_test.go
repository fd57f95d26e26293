package respapi

import (
	"fmt"
	"strings"
	"testing"
)

// notRedis is the end of the reply to an unknown command.
const notRedis = "; this is Headgate, not Redis: it supports CL.THROTTLE, THROTTLE and HG.*, see COMMAND DOCS\r\n"

const (
	okReply  = "+OK\r\n"
	noAuth   = "-NOAUTH Authentication required.\r\n"
	badPass  = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
	greeting = "$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n$5\r\nproto\r\n:%\r\n$2\r\nid\r\n:1\r\n" +
		"$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
)

func hello(version string) string {
	head := "*14\r\n"
	if version == "3" {
		head = "%7\r\n"
	}
	return head + strings.Replace(greeting, "%", version, 1)
}

// step is a request and its exact reply.
type step struct{ asked, want string }

func check(t *testing.T, opts *Options, steps []step) *client {
	t.Helper()
	c := New(mustEngine(t, newFrozen(t), policies), opts).newClient(t)
	for i, s := range steps {
		input := s.asked
		if !strings.HasSuffix(input, "\r\n") {
			input = request(words(s.asked)...)
		}
		if got := c.send(input); got != s.want {
			t.Errorf("%d, %q: got %q, want %q", i, s.asked, got, s.want)
		}
	}
	return c
}

func TestConnectionCommands(t *testing.T) {
	check(t, nil, []step{
		{"PING", "+PONG\r\n"},
		{"ping hi", "$2\r\nhi\r\n"},
		{"PING a b", "-ERR wrong number of arguments for 'ping' command\r\n"},
		{"ECHO hi", "$2\r\nhi\r\n"},
		{"ECHO", "-ERR wrong number of arguments for 'echo' command\r\n"},
		{"SELECT 0", okReply},
		{"SELECT 1", "-ERR DB index is out of range: there is only database 0; select it in the settings of the client\r\n"},
		{"SELECT x", "-ERR value is not an integer or out of range\r\n"},
		{"FOO bar", "-ERR unknown command 'FOO'" + notRedis},
		{"GET k", "-ERR unknown command 'GET'" + notRedis},
		{strings.Repeat("x", 100), "-ERR unknown command '" + strings.Repeat("x", 64) + "…'" + notRedis},
		{"CONFIG GET save", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"},
		{"CONFIG GET appendonly", "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n"},
		{"CONFIG GET nothing", "*0\r\n"},
		{"CONFIG SET save x", "-ERR only CONFIG GET is supported; change the configuration of the service instead\r\n"},
		{"*0\r\n", ""},
		{"*-1\r\n", ""},
		{"\r\n", ""},
		{"*1\r\n$0\r\n\r\n", "-ERR unknown command ''" + notRedis},
		{"QUIT", okReply},
	})
}

func TestHello(t *testing.T) {
	check(t, nil, []step{
		{"HELLO", hello("2")},
		{"HELLO 3", hello("3")},
		{"HELLO", hello("3")},
		{"CLIENT GETNAME", "_\r\n"},
		{"HELLO 2 SETNAME me", hello("2")},
		{"CLIENT GETNAME", "$2\r\nme\r\n"},
		{"HELLO 3 AUTH default anything SETNAME you", hello("3")},
		{"CLIENT GETNAME", "$3\r\nyou\r\n"},
		{"HELLO 1", "-NOPROTO unsupported protocol version\r\n"},
		{"HELLO 4", "-NOPROTO unsupported protocol version\r\n"},
		{"HELLO x", "-ERR Protocol version is not an integer or out of range\r\n"},
		{"HELLO 2 AUTH x", "-ERR Syntax error in HELLO option 'AUTH'\r\n"},
		{"HELLO 2 FOO", "-ERR Syntax error in HELLO option 'FOO'\r\n"},
		{request("HELLO", "2", "SETNAME", "a b"), "-ERR Client names cannot contain spaces, newlines or special characters.\r\n"},
		{"HELLO 2 AUTH nobody x", badPass},
		{"HELLO", hello("3")},
		{"RESET", "+RESET\r\n"},
		{"HELLO", hello("2")},
	})
}

func TestAuth(t *testing.T) {
	helloFirst := "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> " +
		"option can be used to authenticate the client and select the RESP protocol version at the same time\r\n"
	t.Run("without a password", func(t *testing.T) {
		check(t, nil, []step{
			{"AUTH x", "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?\r\n"},
			{"AUTH default x", okReply},
			{"AUTH nobody x", badPass},
			{"AUTH a b c", "-ERR syntax error\r\n"},
		})
	})
	t.Run("default user", func(t *testing.T) {
		check(t, &Options{Password: "secret"}, []step{
			{"PING", noAuth},
			{"FOO", noAuth},
			{"CL.THROTTLE k 15 30 60", noAuth},
			{"HG.CHECK api k", noAuth},
			{"INFO", noAuth},
			{"COMMAND DOCS", noAuth},
			{"HELLO 3", helloFirst},
			{"AUTH wrong", badPass},
			{"AUTH secre", badPass},
			{"AUTH secret1", badPass},
			{request("AUTH", ""), badPass},
			{"PING", noAuth},
			{"AUTH other secret", badPass},
			{"HELLO 3 AUTH default wrong", badPass},
			{"AUTH secret", okReply},
			{"PING", "+PONG\r\n"},
			{"RESET", "+RESET\r\n"},
			{"PING", noAuth},
			{"HELLO 3 AUTH default secret", hello("3")},
			{"PING", "+PONG\r\n"},
			{"AUTH wrong", badPass}, // it is still who it was
			{"PING", "+PONG\r\n"},
		})
	})
	t.Run("named user", func(t *testing.T) {
		check(t, &Options{User: "app", Password: "secret"}, []step{
			{"AUTH secret", badPass},
			{"AUTH default secret", badPass},
			{"AUTH app wrong", badPass},
			{"AUTH app secret", okReply},
			{"PING", "+PONG\r\n"},
		})
	})
	t.Run("many wrong passwords close the connection", func(t *testing.T) {
		c := check(t, &Options{Password: "secret"}, nil)
		if got := c.send(strings.Repeat(request("AUTH", "x"), 20)); got != strings.Repeat(badPass, 10) || !c.s.closing {
			t.Errorf("got %q, closing %v; want 10 answers and the end", got, c.s.closing)
		}
	})
	t.Run("QUIT needs no password", func(t *testing.T) {
		check(t, &Options{Password: "secret"}, []step{{"QUIT", okReply}})
	})
}

func TestClient(t *testing.T) {
	c := check(t, nil, []step{
		{"CLIENT ID", ":1\r\n"},
		{"CLIENT GETNAME", "$-1\r\n"},
		{"CLIENT SETNAME me", okReply},
		{"CLIENT GETNAME", "$2\r\nme\r\n"},
		{request("CLIENT", "SETNAME", "a\nb"), "-ERR Client names cannot contain spaces, newlines or special characters.\r\n"},
		{"CLIENT SETNAME " + strings.Repeat("n", 129), "-ERR Client names cannot contain spaces, newlines or special characters.\r\n"},
		{"CLIENT SETINFO LIB-NAME lib", okReply},
		{"CLIENT SETINFO lib-ver 1.2", okReply},
		{"CLIENT SETINFO lib-foo 1.2", "-ERR Unrecognized option 'lib-foo'\r\n"},
		{request("CLIENT", "SETINFO", "LIB-VER", "1 2"), "-ERR lib-ver cannot contain spaces, newlines or special characters.\r\n"},
		{"CLIENT NO-EVICT on", okReply},
		{"CLIENT NO-TOUCH OFF", okReply},
		{"CLIENT NO-TOUCH maybe", "-ERR syntax error\r\n"},
		{"CLIENT TRACKING on", "-ERR client tracking is not supported; disable client-side caching\r\n"},
		{"CLIENT TRACKING off", okReply},
		{"CLIENT KILL ID 1", "-ERR unknown subcommand 'KILL' of CLIENT, or wrong arguments\r\n"},
		{"CLIENT", "-ERR wrong number of arguments for 'client' command\r\n"},
	})
	const want = "id=1 addr=192.0.2.1:1 laddr=192.0.2.2:2 name=me age=0 idle=0 flags=N db=0 cmd=client user=default lib-name=lib lib-ver=1.2 resp=2\n"
	if got := c.do("CLIENT", "LIST"); !strings.HasSuffix(got, "\r\n"+want+"\r\n") {
		t.Errorf("CLIENT LIST: got %q, want %q", got, want)
	}
}

func TestInfo(t *testing.T) {
	c := check(t, &Options{Version: "1.2.3"}, nil)
	for _, line := range []string{"redis_version:7.2.0", "headgate_version:1.2.3", "redis_mode:standalone", "loading:0", "role:master", "maxclients:10000"} {
		if got := c.do("INFO", "server"); !strings.HasPrefix(got, "$") || !strings.Contains(got, "\r\n"+line+"\r\n") {
			t.Errorf("INFO: got %q, want a line %q", got, line)
		}
	}
	c.do("HELLO", "3")
	if got := c.do("INFO"); !strings.HasPrefix(got, "=") || !strings.Contains(got, "\r\ntxt:# Server\r\n") {
		t.Errorf("INFO in version 3: got %q", got)
	}
}

func TestCommand(t *testing.T) {
	const throttle = "*10\r\n$11\r\ncl.throttle\r\n:-5\r\n*3\r\n+fast\r\n+write\r\n+denyoom\r\n:1\r\n:1\r\n:1\r\n*0\r\n*0\r\n*0\r\n*0\r\n"
	const check1 = "*10\r\n$8\r\nhg.check\r\n:-3\r\n*3\r\n+fast\r\n+write\r\n+denyoom\r\n:2\r\n:2\r\n:1\r\n*0\r\n*0\r\n*0\r\n*0\r\n"
	c := check(t, nil, []step{
		{"COMMAND COUNT", ":27\r\n"},
		{"COMMAND INFO cl.throttle HG.CHECK foo", "*3\r\n" + throttle + check1 + "$-1\r\n"},
		{"COMMAND DOCS echo foo", "*2\r\n$4\r\necho\r\n*6\r\n$7\r\nsummary\r\n$12\r\nECHO message\r\n$5\r\nsince\r\n$5\r\n1.0.0\r\n$5\r\ngroup\r\n$10\r\nconnection\r\n"},
		{"COMMAND FOO", "-ERR unknown subcommand 'FOO' of COMMAND\r\n"},
		{"HELLO 3", hello("3")},
		{"COMMAND INFO foo", "*1\r\n_\r\n"},
	})
	for _, tt := range []struct{ asked, head string }{
		{"COMMAND", "*27\r\n*10\r\n$4\r\nauth\r\n"},
		{"COMMAND INFO", "*27\r\n*10\r\n$4\r\nauth\r\n"},
		{"COMMAND LIST", "*27\r\n$4\r\nauth\r\n"},
		{"COMMAND DOCS", "%27\r\n$4\r\nauth\r\n%3\r\n"},
	} {
		if got := c.do(words(tt.asked)...); !strings.HasPrefix(got, tt.head) {
			t.Errorf("%.40s: got %.60q, want %q", tt.asked, got, tt.head)
		}
	}
}

// TestCommandListsEveryName: COMMAND INFO replies for each name, known, unknown or
// repeated, up to the maximum number of arguments.
func TestCommandListsEveryName(t *testing.T) {
	const echo = "*10\r\n$4\r\necho\r\n:2\r\n~4\r\n+fast\r\n+noscript\r\n+loading\r\n+stale\r\n:0\r\n:0\r\n:0\r\n~0\r\n~0\r\n~0\r\n*0\r\n"
	const docs = "$4\r\necho\r\n%3\r\n$7\r\nsummary\r\n$12\r\nECHO message\r\n$5\r\nsince\r\n$5\r\n1.0.0\r\n$5\r\ngroup\r\n$10\r\nconnection\r\n"
	const most = (maxArgs - 2) / 2
	names := strings.Repeat(" echo foo", most)
	check(t, nil, []step{
		{"HELLO 3", hello("3")},
		{"COMMAND INFO" + names, fmt.Sprintf("*%d\r\n", 2*most) + strings.Repeat(echo+"_\r\n", most)},
		{"COMMAND DOCS" + names, "%1\r\n" + docs}, // a map has no name twice
	})
}

// TestCommandDocsListArguments: redis-cli shows the arguments as hints.
func TestCommandDocsListArguments(t *testing.T) {
	const begin = "$7\r\nhg.peek\r\n*8\r\n$7\r\nsummary\r\n$50\r\nreports what HG.CHECK would decide; spends nothing\r\n$5\r\nsince\r\n$5\r\n1.0.0\r\n" +
		"$5\r\ngroup\r\n$6\r\nmodule\r\n$9\r\narguments\r\n*3\r\n"
	const policy = "*4\r\n$4\r\nname\r\n$6\r\npolicy\r\n$4\r\ntype\r\n$6\r\nstring\r\n"
	const key = "*4\r\n$4\r\nname\r\n$3\r\nkey\r\n$4\r\ntype\r\n$3\r\nkey\r\n"
	const cost = "*6\r\n$4\r\nname\r\n$4\r\ncost\r\n$4\r\ntype\r\n$7\r\ninteger\r\n$5\r\nflags\r\n*1\r\n+optional\r\n"
	check(t, nil, []step{{"COMMAND DOCS hg.peek", "*2\r\n" + begin + policy + key + cost}})
}

func TestCommandGetKeys(t *testing.T) {
	invalid := "-ERR Invalid number of arguments specified for command\r\n"
	check(t, nil, []step{
		{"COMMAND GETKEYS cl.throttle k 15 30 60", "*1\r\n$1\r\nk\r\n"},
		{"COMMAND GETKEYS HG.CHECK api k", "*1\r\n$1\r\nk\r\n"},
		{"COMMAND GETKEYS hg.check api", invalid},
		{"COMMAND GETKEYS cl.throttle", invalid},
		{"COMMAND GETKEYS ping", "-ERR The command has no key arguments\r\n"},
		{"COMMAND GETKEYS foo x", "-ERR Invalid command specified\r\n"},
		{"COMMAND GETKEYS", "-ERR wrong number of arguments for 'command|getkeys' command\r\n"},
		{"COMMAND COUNT x", "-ERR wrong number of arguments for 'command|count' command\r\n"},
		{"COMMAND LIST x", "-ERR wrong number of arguments for 'command|list' command\r\n"},
	})
}

// TestHTTPClientsAreDisconnected: a web page can make a browser connect. The connection
// is closed at the first line of an HTTP request, so that no command in it runs.
func TestHTTPClientsAreDisconnected(t *testing.T) {
	for _, first := range []string{"POST / HTTP/1.1\r\n", "Host: localhost:6380\r\n"} {
		c := New(mustEngine(t, newFrozen(t), nil), nil).newClient(t)
		got := c.send(first + "CL.THROTTLE k 0 1 60\r\n")
		if !strings.HasPrefix(got, "-ERR unknown command") || strings.Count(got, "\r\n") != 1 || !c.s.closing {
			t.Errorf("%q: got %q, closing %v; want one error and the end", first, got, c.s.closing)
		}
	}
}
