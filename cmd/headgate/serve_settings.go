package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
)

// settingFlags are flags for settings of the configuration, and for its file.
type settingFlags struct {
	file   string
	values map[string]*settingFlag // by path
}

// settingFlag is the flag of one setting. Its text is looked at when all sources are there, so that all errors are told at once.
type settingFlag struct {
	setting config.Setting
	text    string
	given   bool
}

// String is what a list of flags calls the default.
func (f *settingFlag) String() string {
	if f.given {
		return f.text
	}
	return f.setting.Default
}

// Set takes a text. A list may be given in several flags.
func (f *settingFlag) Set(text string) error {
	if f.given && f.Type() == "list" {
		text = f.text + "," + text
	}
	f.text, f.given = text, true
	return nil
}

// Type is what a list of flags calls a value.
func (f *settingFlag) Type() string { return f.setting.Kind() }

// add makes flags of the file and of the settings, or of those that are named only.
func (s *settingFlags) add(f *pflag.FlagSet, only ...string) {
	f.SortFlags = false
	f.StringVar(&s.file, "config", "", "the configuration `file`; it is watched, and SIGHUP has it read again")
	s.values = make(map[string]*settingFlag)
	for _, setting := range config.Settings() {
		if len(only) > 0 && !strings.Contains(" "+strings.Join(only, " ")+" ", " "+setting.Path+" ") {
			continue
		}
		value := &settingFlag{setting: setting}
		s.values[setting.Path] = value
		flag := f.VarPF(value, setting.Flag, "", setting.Help)
		if value.Type() == "bool" {
			flag.NoOptDefVal = "true"
		}
	}
}

// sources are the flags that were given, the environment, and the file that either of them names.
func (s *settingFlags) sources() config.Sources {
	from := config.Sources{
		Path: s.file, Flags: make(map[string]string), Lookup: os.LookupEnv, Environ: os.Environ(), Others: variablesOfDemo(),
		Ratelimit: calledRatelimit(), CheckStore: checkStoreURL,
	}
	if from.Path == "" {
		from.Path = os.Getenv(config.FileVariable)
	}
	for path, value := range s.values {
		if value.given {
			from.Flags[path] = value.text
		}
	}
	return from
}

// variablesOfDemo set the flags of headgate demo.
func variablesOfDemo() (names []string) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(demoSettings).flags(f)
	f.VisitAll(func(flag *pflag.Flag) { names = append(names, environmentName(flag.Name)) })
	return names
}

// checkStoreURL says what is wrong with a store's URL. It does no I/O.
func checkStoreURL(url config.StoreURL) error {
	store, err := storeopen.Open(string(url), nil)
	if err != nil {
		return err
	}
	return store.Close()
}

// reported prints each error of a configuration on a line of its own and is errReported then; other errors are as they were.
func reported(err error) error {
	var all config.Errors
	if !errors.As(err, &all) {
		return err
	}
	for _, one := range all {
		fmt.Fprintln(os.Stderr, one)
	}
	return errReported
}

func outside(flag, value, accepted string) error {
	return fmt.Errorf("--%s (or %s) is %s; accepted: %s", flag, environmentName(flag), value, accepted)
}

// environmentName is the variable that sets a flag.
func environmentName(flag string) string {
	return config.Prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// setFromEnvironment sets the flags that were not given from their variables. An empty variable is none.
func setFromEnvironment(f *pflag.FlagSet, lookup func(string) (string, bool)) (err error) {
	f.VisitAll(func(flag *pflag.Flag) {
		name := environmentName(flag.Name)
		value, ok := lookup(name)
		if flag.Changed || !ok || value == "" || flag.Name == "help" || err != nil {
			return
		}
		if f.Set(flag.Name, value) != nil {
			err = fmt.Errorf("%s is %q; expected: %s", name, value, expected[flag.Value.Type()])
		}
	})
	return err
}

// expected says what a flag of each type takes.
var expected = map[string]string{"int": "a whole number", "duration": "a time such as 5s or 1m30s"}
