package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

// errReported ends a command that has already printed what is wrong.
var errReported = errors.New("reported")

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
