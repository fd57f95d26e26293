package envoyxds

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// A repeated response is answered only after a delay, and so is a rejection after
// another: go-control-plane immediately sends a rejected configuration again, and
// simpler servers send their configuration after every request, so that client and
// server would be busy. New configurations are delayed by the same time at most. A
// repeated response later than maxRepeatDelay after the last reply is delayed by
// minRepeatDelay again.
const (
	minRepeatDelay = 100 * time.Millisecond
	maxRepeatDelay = 5 * time.Second
)

const (
	maxReasonBytes  = 4 << 10 // of an error to or from the control plane
	maxMessageDepth = 200     // of nested messages in a response
	maxVersionBytes = 64      // of a version in the log
)

// errStreamEnded is the error of a stream that the control plane closed without an error.
var errStreamEnded = errors.New("the control plane closed the stream")

// verdict is the result of the last response.
type verdict struct {
	digest  [sha256.Size]byte // of its resources
	refused bool
	reason  string // of a rejection
	at      time.Time
}

type stream = discovery.AggregatedDiscoveryService_StreamAggregatedResourcesClient

// session connects once and receives responses until the stream ends. It reports
// whether the stream was opened, and why it ended.
func (c *Client) session(ctx context.Context) (opened bool, err error) {
	defer c.recordFailure()
	conn, err := c.dial()
	if err != nil {
		return false, err
	}
	defer conn.Close() // also ends the stream
	ctx = metadata.NewOutgoingContext(ctx, metadata.New(c.opts.Headers))
	s, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return false, streamError(err)
	}
	began := time.Now()
	c.setConnected(true)
	c.ignoredLogged = false
	c.opts.Log.Info("connected to xDS control plane", "server", c.opts.Server)
	err = c.receive(ctx, s)
	if time.Since(began) > c.opts.BackoffMax {
		c.resetBackoff()
	}
	return true, err
}

// resetBackoff resets the delay between streams after a useful stream, and has the
// next failure logged.
func (c *Client) resetBackoff() {
	c.streamBackoff.Reset()
	c.lastLogged = ""
}

// streamError returns a gRPC error with a readable message.
func streamError(err error) error {
	if errors.Is(err, io.EOF) {
		return errStreamEnded
	}
	message := status.Convert(err).Message()
	if strings.Contains(message, "received message larger than max") {
		message += "; increase envoy.xds.max_message_bytes"
	}
	return fmt.Errorf("%s: %.*s", status.Code(err), maxReasonBytes, message)
}

// receive subscribes and answers each response. It does not send the version of an
// earlier stream: a restarted control plane may use the version for another
// configuration and would not send it.
func (c *Client) receive(ctx context.Context, s stream) error {
	err := c.send(s, &discovery.DiscoveryRequest{})
	for err == nil {
		var response *discovery.DiscoveryResponse
		if response, err = s.Recv(); err != nil {
			return streamError(err)
		}
		err = c.handleResponse(ctx, s, response)
	}
	return err
}

// send sends a request with the node and the type URL.
func (c *Client) send(s stream, r *discovery.DiscoveryRequest) error {
	r.Node, r.TypeUrl = c.node, TypeURL
	err := s.Send(r)
	if errors.Is(err, io.EOF) {
		_, err = s.Recv() // returns the reason
	}
	if err != nil {
		return streamError(err)
	}
	return nil
}

// handleResponse applies a response and acknowledges it, or rejects it. A response
// with the same resources as the last is not decoded again, whatever its version.
func (c *Client) handleResponse(ctx context.Context, s stream, response *discovery.DiscoveryResponse) error {
	if got := response.GetTypeUrl(); got != TypeURL && got != "" {
		c.logIgnored(got)
		return nil
	}
	digest := digestOf(response)
	if digest == c.last.digest {
		c.delayRepeat(ctx)
		return c.reply(s, response)
	}
	resources, err := decode(response)
	if err == nil {
		err = c.rules.Apply(resources)
	}
	before := c.last.refused
	c.last.digest, c.last.refused = digest, err != nil
	version := fmt.Sprintf("%.*s", maxVersionBytes, response.GetVersionInfo())
	if err == nil {
		c.opts.Log.Info("xDS configuration accepted", "version", version)
		return c.reply(s, response)
	}
	c.last.reason = reasonOf(err)
	c.rules.Refused(err)
	c.opts.Log.Info("xDS configuration rejected", "version", version)
	if before {
		c.delayRepeat(ctx)
	}
	return c.reply(s, response)
}

// logIgnored logs a response of an unsubscribed type, once per stream.
func (c *Client) logIgnored(kind string) {
	if !c.ignoredLogged {
		c.opts.Log.Warn("ignoring xDS response of unsubscribed type", "type", fmt.Sprintf("%.100s", kind))
	}
	c.ignoredLogged = true
}

// delayRepeat waits before the same reply is sent again. The delay grows with each
// repetition.
func (c *Client) delayRepeat(ctx context.Context) {
	if time.Since(c.last.at) > maxRepeatDelay {
		c.repeatBackoff.Reset()
	}
	pause(ctx, c.repeatBackoff.NextBackOff())
}

// reply sends the last verdict: ACK, or NACK with the reason, and the effective version.
func (c *Client) reply(s stream, response *discovery.DiscoveryResponse) error {
	r := &discovery.DiscoveryRequest{ResponseNonce: response.GetNonce()}
	if c.last.refused {
		r.ErrorDetail = &rpc.Status{Code: int32(codes.InvalidArgument), Message: c.last.reason}
	} else {
		c.accepted = response.GetVersionInfo()
		c.resetBackoff()
	}
	r.VersionInfo = c.accepted
	c.last.at = time.Now()
	return c.send(s, r)
}

func reasonOf(err error) string {
	reason := err.Error()
	if len(reason) > maxReasonBytes {
		reason = reason[:maxReasonBytes]
	}
	return strings.ToValidUTF8(reason, "")
}

// digestOf returns a hash of a response's resources, in any order.
func digestOf(response *discovery.DiscoveryResponse) [sha256.Size]byte {
	sums := make([][]byte, 0, len(response.GetResources()))
	for _, r := range response.GetResources() {
		sum := sha256.New()
		sum.Write([]byte(r.GetTypeUrl() + "\x00"))
		sum.Write(r.GetValue())
		sums = append(sums, sum.Sum(nil))
	}
	slices.SortFunc(sums, slices.Compare)
	return sha256.Sum256(slices.Concat(sums...))
}

// decode unpacks the resources of a response. It ignores unknown fields, which newer
// control planes send.
func decode(response *discovery.DiscoveryResponse) ([]*Resource, error) {
	resources := make([]*Resource, len(response.GetResources()))
	for i, packed := range response.GetResources() {
		resources[i] = new(Resource)
		if err := anypb.UnmarshalTo(packed, resources[i], proto.UnmarshalOptions{RecursionLimit: maxMessageDepth, DiscardUnknown: true}); err != nil {
			return nil, fmt.Errorf("cannot decode resource %d: %.200s", i, err)
		}
	}
	return resources, nil
}
