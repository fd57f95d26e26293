using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.RateLimiting;
using System.Threading.Tasks;

// [snippet limiter]
/// <summary>A limiter for one key. It has no state: Headgate has it.</summary>
public sealed class HeadgateLimiter : RateLimiter
{
    private readonly HeadgateClient client;
    private readonly string policy, key;

    public HeadgateLimiter(HeadgateClient client, string policy, string key)
    {
        this.client = client;
        this.policy = policy;
        this.key = key;
    }

    protected override async ValueTask<RateLimitLease> AcquireAsyncCore(int permits, CancellationToken cancel)
    {
        var decision = await client.CheckAsync(policy, key, cancel);
        if (decision == null)
            return new Lease(true, TimeSpan.Zero); // fail open; false fails closed
        return new Lease(decision.Value.Allowed, decision.Value.RetryAfter);
    }

    // ASP.NET tries this first, then AcquireAsync. It must not block for the network.
    protected override RateLimitLease AttemptAcquireCore(int permits) => new Lease(false, TimeSpan.Zero);

    public override RateLimiterStatistics GetStatistics() => null;

    // There is nothing to keep, so the framework may drop the limiter at any time.
    public override TimeSpan? IdleDuration => TimeSpan.FromMinutes(1);

    private sealed class Lease : RateLimitLease
    {
        private readonly TimeSpan retryAfter;

        public Lease(bool acquired, TimeSpan retryAfter)
        {
            IsAcquired = acquired;
            this.retryAfter = retryAfter;
        }

        public override bool IsAcquired { get; }

        public override IEnumerable<string> MetadataNames => new[] { MetadataName.RetryAfter.Name };

        public override bool TryGetMetadata(string name, out object value)
        {
            value = retryAfter;
            return !IsAcquired && name == MetadataName.RetryAfter.Name;
        }
    }
}
// [end limiter]
