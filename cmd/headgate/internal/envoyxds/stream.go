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

// An answer that comes again is answered again only after so long, and so is a refusal behind another: go-control-plane sends at once
// what was refused, simpler ones send all they have behind whatever they are told, and both sides would do nothing else. What is really
// new is waited for as long, at most. One that comes after mostAgain begins with leastAgain.
const (
	leastAgain = 100 * time.Millisecond
	mostAgain  = 5 * time.Second
)

const (
	mostReason  = 4 << 10 // bytes of a reason that the control plane is told, letters of one that it tells
	deepest     = 200     // messages in each other, in an answer
	mostVersion = 64      // letters of a version that are logged
)

// errEnded is why there is no stream any more, if the control plane said nothing else.
var errEnded = errors.New("it ended the stream")

// verdict is what the last answer was told.
type verdict struct {
	digest  [sha256.Size]byte // of its resources
	refused bool
	reason  string // of a refusal
	at      time.Time
}

type stream = discovery.AggregatedDiscoveryService_StreamAggregatedResourcesClient

// session connects once and follows the stream to its end. It says whether there was one, and why there is none any more.
func (c *Client) session(ctx context.Context) (opened bool, err error) {
	defer c.failed()
	conn, err := c.dial()
	if err != nil {
		return false, err
	}
	defer conn.Close() // which ends the stream
	ctx = metadata.NewOutgoingContext(ctx, metadata.New(c.opts.Headers))
	s, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return false, plainly(err)
	}
	began := time.Now()
	c.connected(true)
	c.ignored = false
	c.opts.Log.Info("the control plane is connected", "server", c.opts.Server)
	err = c.follow(ctx, s)
	if time.Since(began) > c.opts.BackoffMax {
		c.worked()
	}
	return true, err
}

// worked notes that a stream was of use, so that its end is news and the next is not far.
func (c *Client) worked() {
	c.ended.Reset()
	c.told = ""
}

// plainly is an error of gRPC as people read it.
func plainly(err error) error {
	if errors.Is(err, io.EOF) {
		return errEnded
	}
	message := status.Convert(err).Message()
	if strings.Contains(message, "received message larger than max") {
		message += "; the client's setting of the longest message has to be raised"
	}
	return fmt.Errorf("%s: %.*s", status.Code(err), mostReason, message)
}

// follow subscribes, and answers each answer. A new stream is begun as if nothing held: a control plane that was started again may call
// something else by the version that holds here, and would not send it.
func (c *Client) follow(ctx context.Context, s stream) error {
	err := c.send(s, &discovery.DiscoveryRequest{})
	for err == nil {
		var answer *discovery.DiscoveryResponse
		if answer, err = s.Recv(); err != nil {
			return plainly(err)
		}
		err = c.take(ctx, s, answer)
	}
	return err
}

// send sends a request; what is the same in all of them is added.
func (c *Client) send(s stream, r *discovery.DiscoveryRequest) error {
	r.Node, r.TypeUrl = c.node, TypeURL
	err := s.Send(r)
	if errors.Is(err, io.EOF) {
		_, err = s.Recv() // which says why
	}
	if err != nil {
		return plainly(err)
	}
	return nil
}

// take puts an answer into force and acknowledges it, or refuses it. One that comes again is not read again, whatever its version is.
func (c *Client) take(ctx context.Context, s stream, answer *discovery.DiscoveryResponse) error {
	if got := answer.GetTypeUrl(); got != TypeURL && got != "" {
		c.ignore(got)
		return nil
	}
	digest := digestOf(answer)
	if digest == c.last.digest {
		c.calm(ctx)
		return c.reply(s, answer)
	}
	resources, err := read(answer)
	if err == nil {
		err = c.rules.Use(resources)
	}
	before := c.last.refused
	c.last.digest, c.last.refused = digest, err != nil
	version := fmt.Sprintf("%.*s", mostVersion, answer.GetVersionInfo())
	if err == nil {
		c.opts.Log.Info("the control plane is told that its configuration holds", "version", version)
		return c.reply(s, answer)
	}
	c.last.reason = reasonOf(err)
	c.rules.Refused(err)
	c.opts.Log.Info("the control plane is told that its configuration is refused", "version", version)
	if before {
		c.calm(ctx)
	}
	return c.reply(s, answer)
}

// ignore tells, once for a stream, of an answer that nobody asked for.
func (c *Client) ignore(kind string) {
	if !c.ignored {
		c.opts.Log.Warn("the control plane sends what nobody asked for", "type", fmt.Sprintf("%.100s", kind))
	}
	c.ignored = true
}

// calm waits before the control plane is told the same again, the longer the more often it is.
func (c *Client) calm(ctx context.Context) {
	if time.Since(c.last.at) > mostAgain {
		c.again.Reset()
	}
	pause(ctx, c.again.NextBackOff())
}

// reply tells the control plane the last verdict: that an answer holds, or why it does not, and which version does.
func (c *Client) reply(s stream, answer *discovery.DiscoveryResponse) error {
	r := &discovery.DiscoveryRequest{ResponseNonce: answer.GetNonce()}
	if c.last.refused {
		r.ErrorDetail = &rpc.Status{Code: int32(codes.InvalidArgument), Message: c.last.reason}
	} else {
		c.accepted = answer.GetVersionInfo()
		c.worked()
	}
	r.VersionInfo = c.accepted
	c.last.at = time.Now()
	return c.send(s, r)
}

func reasonOf(err error) string {
	reason := err.Error()
	if len(reason) > mostReason {
		reason = reason[:mostReason]
	}
	return strings.ToValidUTF8(reason, "")
}

// digestOf tells what answers hold apart, whatever order it comes in.
func digestOf(answer *discovery.DiscoveryResponse) [sha256.Size]byte {
	sums := make([][]byte, 0, len(answer.GetResources()))
	for _, r := range answer.GetResources() {
		sum := sha256.New()
		sum.Write([]byte(r.GetTypeUrl() + "\x00"))
		sum.Write(r.GetValue())
		sums = append(sums, sum.Sum(nil))
	}
	slices.SortFunc(sums, slices.Compare)
	return sha256.Sum256(slices.Concat(sums...))
}

// read is what an answer holds, all of one type. Fields that are not known are left out: they come with control planes that are newer.
func read(answer *discovery.DiscoveryResponse) ([]*Resource, error) {
	resources := make([]*Resource, len(answer.GetResources()))
	for i, packed := range answer.GetResources() {
		resources[i] = new(Resource)
		if err := anypb.UnmarshalTo(packed, resources[i], proto.UnmarshalOptions{RecursionLimit: deepest, DiscardUnknown: true}); err != nil {
			return nil, fmt.Errorf("resource %d cannot be read: %.200s", i, err)
		}
	}
	return resources, nil
}
