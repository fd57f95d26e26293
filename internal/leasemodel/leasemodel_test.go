package leasemodel

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	full   = flag.Bool("full", false, "check the larger configurations of the model, too")
	traces = flag.Bool("traces", false, "log the steps by which each planted mistake breaks the bound")
)

// threeLeases is a larger size of the model. In it, messages are lost when neither a node
// nor the store knows their lease.
const threeLeases = "-DOLD_MESSAGES_LOST -DNODES=3 -DLEASES=3 -DSTEPS=2 -DB=3 -DC=2 -DCHUNK=1 "

// configurations are the sizes and variants in which the model must have no violation.
var configurations = []struct {
	name, flags string
	short, full bool // the short test checks it; only -full checks it
}{
	{name: "bucket", flags: "-DARGUMENT -DRESET", short: true},
	{name: "window", flags: "-DARGUMENT -DRESET -DWINDOW=3"},
	{name: "drift of each node", flags: "-DDRIFT"},
	{name: "finer time", flags: "-DNODES=3 -DLEASES=2 -DSTEPS=3 -DB=4 -DC=2 -DCHUNK=2"},
	{name: "three leases", flags: threeLeases, full: true},
	{name: "three leases, window", flags: threeLeases + "-DWINDOW=3", full: true},
}

// TestModel checks all reachable states. It logs how many there are.
func TestModel(t *testing.T) {
	t.Parallel()
	for _, c := range configurations {
		if c.full && !*full || testing.Short() && !c.short {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			report := check(t, c.flags, "-O2 -DNOREDUCE", "-m4000000")
			if !report.complete || report.violation != "" {
				t.Fatalf("%s: complete %t, violation %q, want a complete search without violation\n%s",
					c.flags, report.complete, report.violation, report.text)
			}
			t.Logf("%s states, depth %s, %s MB", report.states, report.depth, report.memory)
		})
	}
}

// mistakes are changes of the protocol that break the bound. The last ones are failures
// of what the protocol relies on.
var mistakes = []struct{ flags, why string }{
	{"-DVALID_FROM_REPLY", "the node counts the validity from the reply"},
	{"-DEARLIER_REPLY_USED", "the node counts the validity of an earlier reply from its repetition"},
	{"-DWHOLE_DURATION_REPEATED", "the store repeats the whole duration, not what remains of it"},
	{"-DNO_MARGIN", "the node uses the whole TTL"},
	{"-DLATE_REPLY_USED", "the node uses a reply that arrives after the deadline"},
	{"-DREPLY_USED_TWICE", "the node adds a duplicate reply to its lease"},
	{"-DRELEASE_WHILE_SPENDING", "the node still spends what it has returned"},
	{"-DRELEASE_TWICE", "a repeated release returns the units again"},
	{"-DREST_RETURNED", "a renewal returns the rest to the limit, and the node still spends it"},
	{"-DREST_SPENT_TWICE", "the node does not subtract what it spent since the request"},
	{"-DREST_ASSUMED", "the node keeps a rest that the store did not carry"},
	{"-DREPEAT_GRANTS_AGAIN", "a repeated request is granted again"},
	{"-DRENEWED_AFTER_DEADLINE", "a renewal after the deadline carries the rest"},
	{"-DRESTART_SPENDS", "a restarted node spends its old lease"},
	{"-DRESTART_REUSES_ID", "a restarted node uses an old ID, and gets the old reply"},
	{"-DLEASED_UNITS_REFILL", "the units on lease are not subtracted from the capacity"},
	{"-DOUTLIVES_WINDOW -DWINDOW=3", "the lease ends after its window"},
	{"-DRESET_REMOVES_RECORDS -DRESET", "a reset removes the leases"},
	{"-DCLOCK_OF_NODES_STOPS", "the clock of a node stops, or the store's jumps"},
	{"-DFAILOVER_FORGETS_RECORDS", "the store loses its leases"},
}

// TestPlantedMistakes checks that the model can detect each mistake. The short test has
// every third of them.
func TestPlantedMistakes(t *testing.T) {
	t.Parallel()
	for i, m := range mistakes {
		if testing.Short() && i%3 != 0 {
			continue
		}
		t.Run(strings.Fields(m.flags)[0][2:], func(t *testing.T) {
			t.Parallel()
			report := check(t, "-DMISTAKE "+m.flags, "-O0 -DBFS", "-w18")
			if !strings.Contains(report.violation, "allowance>0") {
				t.Fatalf("%s: got violation %q, want that the bound is broken: %s\n%s", m.flags, report.violation, m.why, report.text)
			}
			if *traces {
				t.Logf("%s:\n%s", m.why, trace(t, report.folder, "-DMISTAKE "+m.flags))
			}
		})
	}
}

// report is what the checker printed.
type report struct {
	folder                string // of the checker and its trace
	text                  string
	violation             string // the assertion that failed; empty if none did
	complete              bool   // all states were reached
	states, depth, memory string
}

var (
	violationLine = regexp.MustCompile(`(?m)^pan:\d+: (.*)$`)
	incomplete    = regexp.MustCompile(`Search not completed|max search depth too small|out of memory|DMEMLIM`)
	statesLine    = regexp.MustCompile(`(\d\S*) states, stored`)
	depthLine     = regexp.MustCompile(`depth reached (\d+)`)
	memoryLine    = regexp.MustCompile(`(\d+)\S*\ttotal actual memory usage`)
)

// running bounds the number of checkers that run simultaneously, because of their memory.
var running = make(chan struct{}, 2)

// check generates a checker of the model with spin, compiles it with gcc and runs it.
func check(t *testing.T, flags, compile, run string) report {
	t.Helper()
	running <- struct{}{}
	defer func() { <-running }()
	folder := t.TempDir()
	model, err := os.ReadFile("leases.pml")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "leases.pml"), model, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	command(t, folder, "spin -a "+flags+" leases.pml")
	command(t, folder, "gcc -w -DSAFETY -DMEMLIM=4000 "+compile+" -o pan pan.c")
	r := report{folder: folder, text: command(t, folder, "./pan "+run)}
	r.violation = group(violationLine, r.text)
	r.states, r.depth, r.memory = group(statesLine, r.text), group(depthLine, r.text), group(memoryLine, r.text)
	r.complete = r.states != "" && !incomplete.MatchString(r.text)
	return r
}

// trace returns the steps that lead to the violation. They are the only lines of spin's
// output that begin with a letter.
func trace(t *testing.T, folder, flags string) string {
	t.Helper()
	var steps strings.Builder
	for line := range strings.Lines(command(t, folder, "spin -t -T "+flags+" leases.pml")) {
		if strings.Trim(line[:1], "abcdefghijklmnopqrstuvwxyz") == "" && !strings.HasPrefix(line, "spin:") {
			steps.WriteString(strings.Replace(line, ", which commits 255", "", 1))
		}
	}
	return steps.String()
}

func command(t *testing.T, folder, line string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir = folder
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w; scripts/setup installs spin and gcc\n%s", line, err, text))
	}
	return string(text)
}

func group(pattern *regexp.Regexp, text string) string {
	if found := pattern.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}
