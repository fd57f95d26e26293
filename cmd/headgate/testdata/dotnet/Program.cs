// Acquires four leases as the middleware of ASP.NET does.
using System;
using System.Net.Http;
using System.Threading.RateLimiting;
using System.Threading.Tasks;

public static class Program
{
    public static void Main() => Run().Wait();

    private static async Task Run()
    {
        var http = new HttpClient
        {
            BaseAddress = new Uri(Environment.GetEnvironmentVariable("RATE_LIMIT_HTTP")),
            Timeout = TimeSpan.FromMilliseconds(int.Parse(Environment.GetEnvironmentVariable("RATE_LIMIT_TIMEOUT_MS"))),
        };
        RateLimiter limiter = new HeadgateLimiter(new HeadgateClient(http), "api", "dotnet:user:42");
        for (var i = 0; i < 4; i++)
        {
            var lease = limiter.AttemptAcquire();
            if (!lease.IsAcquired)
                lease = await limiter.AcquireAsync();
            Console.WriteLine($"{(lease.IsAcquired ? 200 : 429)} {Wait(lease)}");
        }
    }

    private static string Wait(RateLimitLease lease)
    {
        object value;
        return lease.TryGetMetadata(MetadataName.RetryAfter.Name, out value) ? ((TimeSpan)value).TotalSeconds.ToString() : "-";
    }
}
