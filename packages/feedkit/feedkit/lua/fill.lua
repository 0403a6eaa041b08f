-- Fills a cached value, if the lease that was taken for it is still there.
-- KEYS[1] the key · ARGV[1] the lease · ARGV[2] the value · ARGV[3] its life in milliseconds
-- Returns 1, or 0 where the lease is gone: whoever deleted it knows of something newer.
if read(KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
