// What examples/dotnet uses of .NET 7 and later, for Debian's Mono, which does not have
// it: the signatures of System.Threading.RateLimiting, PostAsJsonAsync and
// ReadFromJsonAsync.
using System;
using System.Collections.Generic;
using System.Net.Http;
using System.Threading;
using System.Threading.Tasks;

namespace System.Threading.RateLimiting
{
    public class RateLimiterStatistics { }

    public sealed class MetadataName<T>
    {
        public MetadataName(string name) { Name = name; }
        public string Name { get; }
    }

    public static class MetadataName
    {
        public static MetadataName<TimeSpan> RetryAfter { get; } = new MetadataName<TimeSpan>("RETRY_AFTER");
    }

    public abstract class RateLimitLease : IDisposable
    {
        public abstract bool IsAcquired { get; }
        public abstract IEnumerable<string> MetadataNames { get; }
        public abstract bool TryGetMetadata(string metadataName, out object metadata);
        public void Dispose() { }
    }

    public abstract class RateLimiter
    {
        public abstract RateLimiterStatistics GetStatistics();
        public abstract TimeSpan? IdleDuration { get; }
        protected abstract RateLimitLease AttemptAcquireCore(int permitCount);
        protected abstract ValueTask<RateLimitLease> AcquireAsyncCore(int permitCount, CancellationToken cancellationToken);
        public RateLimitLease AttemptAcquire(int permitCount = 1) => AttemptAcquireCore(permitCount);
        public ValueTask<RateLimitLease> AcquireAsync(int permitCount = 1, CancellationToken cancellationToken = default) =>
            AcquireAsyncCore(permitCount, cancellationToken);
    }
}

namespace System.Net.Http.Json
{
    public static class HttpClientJsonExtensions
    {
        public static Task<HttpResponseMessage> PostAsJsonAsync<T>(this HttpClient client, string uri, T value, CancellationToken cancel)
        {
            throw new NotSupportedException();
        }
    }

    public static class HttpContentJsonExtensions
    {
        public static Task<T> ReadFromJsonAsync<T>(this HttpContent content, CancellationToken cancel)
        {
            throw new NotSupportedException();
        }
    }
}
