"""What a post is, before and after it has an id."""

import unicodedata
from typing import NamedTuple

from feedkit import cursor
from feedkit.errors import InvalidArgument

BLANK = "must not be blank unless there are media"


class Medium(NamedTuple):
    """A reference to a picture, a film or a sound that is kept elsewhere."""

    url: str
    type: str
    width: int
    """Pixels; 0 if not known, as is the height."""
    height: int
    alt_text: str


class Post(NamedTuple):
    """What an author wrote."""

    id: int
    author_id: int
    content: str
    media: tuple[Medium, ...]
    edited_at_ms: int
    """Unix milliseconds; 0 if never."""
    reply_to: int = 0
    """The post to which it replies; 0 if to none. That one may have been deleted since."""

    @property
    def created_at_ms(self) -> int:
        """When it was written, in Unix milliseconds."""
        return cursor.created_at_ms(self.id)


class Edit(NamedTuple):
    """What somebody wants to change of a post; None stays as it is."""

    content: str | None
    media: tuple[Medium, ...] | None

    def of(self, post: Post) -> Post:
        """The post as it is to be. Raises InvalidArgument where there would be nothing to see."""
        edited = post._replace(
            content=post.content if self.content is None else self.content,
            media=post.media if self.media is None else self.media,
        )
        if not _shows(edited.content, edited.media):
            if self.content is None:
                raise InvalidArgument.of_field("media", "must not be empty while the text is blank")
            raise InvalidArgument.of_field("content", BLANK)
        return edited


class Draft(NamedTuple):
    """What somebody wants to post."""

    author_id: int
    content: str
    media: tuple[Medium, ...]
    reply_to: int = 0
    """The post to which it is to reply; 0: to none."""

    def check(self) -> None:
        """Raise InvalidArgument where there is nothing to see."""
        if not _shows(self.content, self.media):
            raise InvalidArgument.of_field("content", BLANK)

    def as_post(self, post_id: int) -> Post:
        """The post as first written."""
        return Post(post_id, self.author_id, self.content, self.media, edited_at_ms=0, reply_to=self.reply_to)


def _shows(content: str, media: tuple[Medium, ...]) -> bool:
    return bool(media) or any(map(_is_visible, content))


def _is_visible(character: str) -> bool:
    # Besides blanks, control and format characters leave nothing on a page: zero-width spaces, joiners, marks of direction.
    return not character.isspace() and unicodedata.category(character) not in ("Cc", "Cf")
