# Reads emails from files with MIME-tools, and prints what they contain as JSON.
use strict;
use warnings;
use Encode qw(decode);
use JSON::PP;
use MIME::Base64 qw(encode_base64);
use MIME::Parser;

sub bodies {
    my ($entity, $email) = @_;
    if ($entity->parts) {
        bodies($_, $email) for $entity->parts;
        return;
    }
    my $content = $entity->bodyhandle->as_string;
    my $type = $entity->mime_type;
    if (($entity->head->mime_attr('content-disposition') // '') eq 'attachment') {
        push @{$email->{files}}, {
            name => $entity->head->recommended_filename,
            type => $type,
            content => encode_base64($content, ''),
        };
        return;
    }
    my $text = decode($entity->head->mime_attr('content-type.charset'), $content);
    $email->{$type eq 'text/html' ? 'html' : 'text'} = $text;
}

sub read_email {
    my $parser = MIME::Parser->new;
    $parser->output_to_core(1);
    my $entity = $parser->parse_open($_[0]);
    my ($sender) = decode('MIME-Header', $entity->head->get('From')) =~ /<([^<>]+)>\s*$/;
    my $subject = decode('MIME-Header', $entity->head->get('Subject'));
    chomp $subject;
    my $email = { subject => $subject, sender => $sender, files => [] };
    bodies($entity, $email);
    return $email;
}

print JSON::PP->new->ascii->encode([map { read_email($_) } @ARGV]);
