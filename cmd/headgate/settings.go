package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/service"
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

// calledRatelimit reports whether this program was started under the name of envoyproxy/ratelimit's, which it replaces.
func calledRatelimit() bool { return filepath.Base(os.Args[0]) == "ratelimit" }

// variablesOfDemo set the flags of headgate demo.
func variablesOfDemo() (names []string) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(demoSettings).flags(f)
	f.VisitAll(func(flag *pflag.Flag) { names = append(names, service.Variable(flag.Name)) })
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
