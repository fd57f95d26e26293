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

const serviceCheckHelp = `Report whether a running service is ready. The command requests /readyz from the
HTTP API or the admin listener, and prints the response. Use it as the health
check of a container, because the image has neither curl nor a shell, and in
scripts that wait for the service.

The exit status is 1 if the service is draining or does not respond in time. A
service is ready even if its store is unavailable.`

// maxReadyBytes is the maximum number of bytes of a response body that are printed.
const maxReadyBytes = 4 << 10

// serviceCommand returns the command “headgate service”.
func serviceCommand() *cobra.Command {
	return commandGroup(&cobra.Command{Use: "service", Short: "Check a running service"}, serviceCheckCommand("check"))
}

func serviceCheckCommand(name string) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   name + " [URL]",
		Short: "Report whether a running service is ready",
		Long:  serviceCheckHelp,
		Example: "  headgate service check\n" +
			"  headgate service check https://headgate.example.com --timeout 1s",
		SuggestFor: []string{"ready", "health", "healthcheck", "status", "ping"},
		Args:       atMostOneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return checkService(ctx, cmd.OutOrStdout(), append(args, "http://127.0.0.1:8080")[0])
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Second, "maximum time to wait for the response")
	return cmd
}

// checkService requests /readyz from the service at the URL base and prints the
// response. It returns an error unless the status is 200.
func checkService(ctx context.Context, w io.Writer, base string) error {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("the argument is not a URL such as http://127.0.0.1:8080")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.JoinPath("/readyz").String(), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultTransport.RoundTrip(req) // a RoundTripper does not follow redirects
	if err != nil {
		return fmt.Errorf("%s does not answer: %w", u.Host, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := fmt.Fprintln(w, resp.Status); err != nil {
		return err
	}
	if _, err := io.CopyN(w, resp.Body, maxReadyBytes); err != nil && !errors.Is(err, io.EOF) {
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
