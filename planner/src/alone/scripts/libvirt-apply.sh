each looked
begin
each record
each set_up
each note
