each runs
begin
each record >found/containers
