package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

const checkServiceHelp = `Check service asks a running service at its door for HTTP, or at that for operators, whether it is ready, and prints what it says. It
is for the health check of a container, which has neither curl nor a shell, and for scripts that wait.

The exit status is 1 if the service is draining, or does not answer in time. While only its store is away it is ready.`

// readySize is the most that is printed of an answer, in bytes.
const readySize = 4 << 10

// checkServiceCommand is “headgate check service”.
func checkServiceCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:     "service [URL]",
		Short:   "Say whether a running service is ready",
		Long:    checkServiceHelp,
		Example: "  headgate check service\n  headgate check service https://headgate.example.com --timeout 1s",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return checkService(ctx, cmd.OutOrStdout(), append(args, "http://127.0.0.1:8080")[0])
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Second, "how long to wait for the answer")
	return cmd
}

// checkService prints what /readyz says, and is an error unless that is 200.
func checkService(ctx context.Context, w io.Writer, base string) error {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("what is to be asked is no URL such as http://127.0.0.1:8080")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.JoinPath("/readyz").String(), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultTransport.RoundTrip(req) // as it is: nothing redirects here
	if err != nil {
		return fmt.Errorf("%s does not answer: %w", u.Host, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := fmt.Fprintln(w, resp.Status); err != nil {
		return err
	}
	if _, err := io.CopyN(w, resp.Body, readySize); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errReported
	}
	return nil
}
