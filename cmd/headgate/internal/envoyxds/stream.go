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

// A reply is delayed if a response repeats the previous one, or if it is the second
// invalid response in a row. Otherwise client and server would be busy all the time:
// go-control-plane immediately sends a rejected configuration again, and simpler
// servers send their configuration after every request. A new configuration that
// arrives during a delay waits at most for the rest of the delay. Delays grow from
// minRepeatDelay to maxRepeatDelay, and begin at minRepeatDelay again if the last reply
// was sent more than maxRepeatDelay ago.
const (
	minRepeatDelay = 100 * time.Millisecond
	maxRepeatDelay = 5 * time.Second
)

const (
	maxReasonBytes  = 4 << 10 // maximum size of an error to or from the control plane
	maxMessageDepth = 200     // maximum nesting depth of messages in a response
	maxVersionBytes = 64      // maximum size of a version in the log
)

// errStreamEnded is the error of a stream that the control plane closed without an error.
var errStreamEnded = errors.New("the control plane closed the stream")

// verdict is the decision on the last response: applied or rejected.
type verdict struct {
	digest  [sha256.Size]byte // digest of the resources in the response
	refused bool
	reason  string // reason of a rejection
	at      time.Time
}

type stream = discovery.AggregatedDiscoveryService_StreamAggregatedResourcesClient

// session opens one connection and one stream, and receives responses until the stream
// ends. It returns whether the stream was opened, and the error that ended it.
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

// resetBackoff resets the delay between streams after a stream delivered a valid
// response. It also ensures that the next failure is logged.
func (c *Client) resetBackoff() {
	c.streamBackoff.Reset()
	c.lastLogged = ""
}

// streamError converts an error of gRPC to an error with a readable message.
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

// receive subscribes and replies to each response. The first request does not contain
// the version from an earlier stream: a restarted control plane may use the same
// version for another configuration, and would then not send it.
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

// send sends a request after adding the node and the type URL.
func (c *Client) send(s stream, r *discovery.DiscoveryRequest) error {
	r.Node, r.TypeUrl = c.node, TypeURL
	err := s.Send(r)
	if errors.Is(err, io.EOF) {
		_, err = s.Recv() // returns the error that ended the stream
	}
	if err != nil {
		return streamError(err)
	}
	return nil
}

// handleResponse applies a response and acknowledges it, or rejects it. If a response
// has the same resources as the previous one, handleResponse repeats the previous reply
// without decoding the response, whatever its version is.
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

// logIgnored logs a response of a type that the client did not subscribe to, at most
// once per stream.
func (c *Client) logIgnored(kind string) {
	if !c.ignoredLogged {
		c.opts.Log.Warn("ignoring xDS response of unsubscribed type", "type", fmt.Sprintf("%.100s", kind))
	}
	c.ignoredLogged = true
}

// delayRepeat waits before a repeated reply is sent. The delay grows with each
// repetition.
func (c *Client) delayRepeat(ctx context.Context) {
	if time.Since(c.last.at) > maxRepeatDelay {
		c.repeatBackoff.Reset()
	}
	pause(ctx, c.repeatBackoff.NextBackOff())
}

// reply sends the verdict on the last response: ACK, or NACK with the reason. The
// request contains the version that was last acknowledged.
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

// digestOf returns a hash of the resources in a response. It does not depend on their
// order.
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

// decode unpacks the resources in a response. It ignores unknown fields, because newer
// control planes may send them.
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
